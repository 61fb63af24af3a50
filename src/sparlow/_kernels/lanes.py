"""Several numbers at a time: 64 bytes of an array, as processors add and multiply them.

Short rows, as those of the system of one sample, gain nothing from a compiler that looks for such loops by itself: it
prepares for long ones. Arrays are read and written in whole blocks of ``lanes(array)`` numbers, so that their rows are
padded to a multiple of it. Sums are in an order that does not depend on the compiler.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic, models, register_model

from .compilation import part

_BYTES = 64


def padded(length, itemsize=4):
    """Return the length of a row that holds so many numbers in whole blocks."""
    block = _BYTES // itemsize
    return -(-length // block) * block


def aligned(shape, dtype=np.float64):
    """Return an array of zeros that begins with a block of the memory, so that no block lies across two of them."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size + _BYTES, np.uint8)
    first = -memory.ctypes.data % _BYTES
    return memory[first : first + size].view(dtype).reshape(shape)


class _Lanes(types.Type):  # type: ignore[misc]
    """A block of numbers."""

    def __init__(self, number):
        self.number, self.count = number, _BYTES * 8 // number.bitwidth
        super().__init__(name=f"Lanes({number})")


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager, kind):
        number = manager[kind.number].get_value_type()
        super().__init__(manager, kind, ir.VectorType(number, kind.count))


def _address(context, builder, kind, array, at):
    """Return the address of a block of an array."""
    block = ir.VectorType(context.get_value_type(kind.dtype), _Lanes(kind.dtype).count)
    data = context.make_array(kind)(context, builder, value=array).data
    return builder.bitcast(builder.gep(data, [at]), block.as_pointer())


def _spread(builder, number, count):
    """Return a block with one number in all places."""
    block = ir.VectorType(number.type, count)
    first = builder.insert_element(ir.Constant(block, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count))


def _fold(builder, block, count, combine):
    """Return what is left of a block when halves are combined until there is one number."""
    while count > 1:
        count //= 2
        lower, upper = (
            ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(first, first + count))) for first in (0, count)
        )
        block = combine(builder.shuffle_vector(block, block, lower), builder.shuffle_vector(block, block, upper))
    return builder.extract_element(block, ir.Constant(ir.IntType(32), 0))


@intrinsic
def load(typing, array, at):
    """Return the block of an array that begins at a place."""

    def lower(context, builder, signature, arguments):
        address = _address(context, builder, signature.args[0], *arguments)
        return builder.load(address, align=signature.args[0].dtype.bitwidth // 8)

    return _Lanes(array.dtype)(array, types.intp), lower


@intrinsic
def store(typing, array, at, block):
    """Write a block to an array, from a place on."""

    def lower(context, builder, signature, arguments):
        address = _address(context, builder, signature.args[0], *arguments[:2])
        builder.store(arguments[2], address, align=signature.args[0].dtype.bitwidth // 8)

    return types.void(array, types.intp, block), lower


@intrinsic
def row(typing, matrix, i):
    """Return a row of a borrowed matrix. The index is not looked at, whereas indexing asks whether it is negative."""
    kind = types.Array(matrix.dtype, 1, "C", readonly=not matrix.mutable)

    def lower(context, builder, signature, arguments):
        array = context.make_array(matrix)(context, builder, value=arguments[0])
        _, columns = cgutils.unpack_tuple(builder, array.shape)
        view = context.make_array(kind)(context, builder)
        context.populate_array(
            view,
            data=builder.gep(array.data, [builder.mul(arguments[1], columns)]),
            shape=[columns],
            strides=[array.itemsize],
            itemsize=array.itemsize,
            meminfo=None,
        )
        return view._getvalue()

    return kind(matrix, types.intp), lower


@intrinsic
def lanes(typing, array):
    """Return how many numbers of an array are a block."""

    def lower(context, builder, signature, arguments):
        return ir.Constant(context.get_value_type(types.intp), _Lanes(signature.args[0].dtype).count)

    return types.intp(array), lower


@intrinsic
def zeros(typing, array):
    """Return a block of zeros of the type of an array."""

    def lower(context, builder, signature, arguments):
        return ir.Constant(context.get_value_type(signature.return_type), None)

    return _Lanes(array.dtype)(array), lower


@intrinsic
def add_multiple(typing, block, factor, other):
    """Return block + factor · other, where the factor is a number, or a block too."""
    number = not isinstance(factor, _Lanes)

    def lower(context, builder, signature, arguments):
        first, scale, second = arguments
        if number:
            scale = _spread(builder, scale, block.count)
        return builder.fadd(first, builder.fmul(scale, second, flags=("contract",)), flags=("contract",))

    return block(block, block.number if number else block, block), lower


@intrinsic
def total(typing, block):
    """Return the sum of a block."""

    def lower(context, builder, signature, arguments):
        return _fold(builder, arguments[0], block.count, builder.fadd)

    return block.number(block), lower


@intrinsic
def ranks(typing, z, low, high, margin, at, mask):
    """Return whole numbers that compare as the distances of z to the intervals do; the last bits hold the place.

    ``margin`` is added to the distances, which are negative inside. Numbers above zero compare as their bits do.
    ``mask`` covers the bits of the place.
    """
    whole = types.int32 if z.dtype.bitwidth == 32 else types.int64
    lanes = _Lanes(whole)

    def lower(context, builder, signature, arguments):
        count = lanes.count
        margin, at, mask = arguments[3:]
        z, low, high = (
            builder.load(_address(context, builder, kind, array, at), align=kind.dtype.bitwidth // 8)
            for kind, array in zip(signature.args[:3], arguments[:3], strict=True)
        )
        above, below = builder.fsub(z, high), builder.fsub(low, z)
        distance = builder.select(builder.fcmp_ordered(">", above, below), above, below)
        distance = builder.fadd(distance, _spread(builder, margin, count))
        bits = builder.bitcast(distance, context.get_value_type(lanes))
        one = context.get_value_type(whole)
        places = ir.Constant(ir.VectorType(one, count), list(range(count)))
        first, cover = (
            _spread(builder, value if value.type == one else builder.trunc(value, one), count) for value in (at, mask)
        )
        return builder.or_(builder.and_(bits, builder.not_(cover)), builder.add(first, places))

    return lanes(z, low, high, z.dtype, types.intp, types.intp), lower


@intrinsic
def larger(typing, block, other):
    """Return the larger numbers of two blocks of whole numbers."""

    def lower(context, builder, signature, arguments):
        return builder.select(builder.icmp_signed(">", *arguments), *arguments)

    return block(block, block), lower


@intrinsic
def largest(typing, block):
    """Return the largest of a block of whole numbers."""

    def lower(context, builder, signature, arguments):
        def combine(first, second):
            return builder.select(builder.icmp_signed(">", first, second), first, second)

        return _fold(builder, arguments[0], block.count, combine)

    return block.number(block), lower


if config.DISABLE_JIT:

    def lanes(array):
        return _BYTES // array.itemsize

    def row(matrix, i):
        return matrix[i]

    def load(array, at):
        block = array[at : at + _BYTES // array.itemsize]
        return np.pad(block, (0, _BYTES // array.itemsize - len(block)))

    def store(array, at, block):
        array[at : at + len(block)] = block

    def zeros(array):
        return np.zeros(_BYTES // array.itemsize, array.dtype)

    def add_multiple(block, factor, other):
        return block + factor * other

    def total(block):
        return block.sum()

    def ranks(z, low, high, margin, at, mask):
        z, low, high = load(z, at), load(low, at), load(high, at)
        whole = np.int32 if z.itemsize == 4 else np.int64
        return ((np.maximum(z - high, low - z) + margin).view(whole) & whole(~mask)) | (
            at + np.arange(len(z), dtype=whole)
        )

    larger, largest = np.maximum, np.max


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@part
def dot(a, b, n):
    """Return the product of the first ``n`` numbers of two rows.

    The block in which they end is read as a whole: of ``b`` zeros follow, of ``a`` any numbers.
    """
    sums, more = zeros(a), zeros(a)
    at, block = 0, lanes(a)
    while at + block < n:
        sums = add_multiple(sums, load(a, at), load(b, at))
        more = add_multiple(more, load(a, at + block), load(b, at + block))
        at += 2 * block
    if at < n:
        sums = add_multiple(sums, load(a, at), load(b, at))
    return total(sums) + total(more)


@part
def subtract_rows(table, rows, factors, k, z, w):
    """Subtract Σ factors[s] · table[rows[s]] from z over the first ``w`` columns, in the precision of z."""
    number, block = z.dtype.type, lanes(z)
    at, four = 0, 4 * block
    while at + four <= w:  # four blocks at a time: factors and rows are looked up once for all of them
        a, b, c, d = load(z, at), load(z, at + block), load(z, at + 2 * block), load(z, at + 3 * block)
        for s in range(k):
            source, factor = row(table, rows[s]), -number(factors[s])
            a = add_multiple(a, factor, load(source, at))
            b = add_multiple(b, factor, load(source, at + block))
            c = add_multiple(c, factor, load(source, at + 2 * block))
            d = add_multiple(d, factor, load(source, at + 3 * block))
        store(z, at, a)
        store(z, at + block, b)
        store(z, at + 2 * block, c)
        store(z, at + 3 * block, d)
        at += four
    while at < w:
        a = load(z, at)
        for s in range(k):
            a = add_multiple(a, -number(factors[s]), load(row(table, rows[s]), at))
        store(z, at, a)
        at += block


@part
def places(w):
    """Return the bits that hold a place among ``w``."""
    mask = 1
    while mask < w:
        mask *= 2
    return mask - 1


@part
def largest_violation(z, low, high, margin, w, mask):
    """Return the place among the first ``w`` where z is farthest outside its interval.

    It is −1 if z is farther inside than ``margin`` everywhere. ``mask`` is ``places(w)``.
    """
    best = ranks(z, low, high, margin, 0, mask)
    at = lanes(z)
    while at < w:
        best = larger(best, ranks(z, low, high, margin, at, mask))
        at += lanes(z)
    rank = largest(best)
    return rank & mask if rank > mask else -1
