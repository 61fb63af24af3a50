"use strict";
// The embedding to rotate and zoom, the image under the pointer, the atoms that explain a chosen one.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const typed = (text, kind) => new kind(bytes(text).buffer);
  const by = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const n = data.n, images = data.images, atoms = data.atoms, factors = data.factors;
  const label = typed(data.labels, Uint16Array);
  const views = data.views.map((view) => ({ ...view, coords: typed(view.coords, Int16Array) }));
  const codeStart = typed(data.codes.start, Uint32Array), codeAtom = typed(data.codes.atom, Uint16Array);
  const codeValue = typed(data.codes.value, Int16Array), codeScale = data.codes.scale;
  const codeCount = typed(data.codes.all, Uint32Array); // of which the page keeps the largest
  const atomPixels = atoms && typed(atoms.pixels, Int8Array), factorPixels = factors && typed(factors.pixels, Int8Array);
  const profiles = data.profiles && typed(data.profiles.pixels, Int8Array);
  const COLOURS = data.colours, NONE = 65535;
  const local = data.local && { ...data.local, place: typed(data.local.place, Uint32Array), value: typed(data.local.value, Int16Array), map: typed(data.local.map, Int8Array) };
  const mapPixels = data.maps && typed(data.maps.pixels, Int8Array);
  const near = typed(data.nearest, Uint32Array), nearCount = near.length / n;
  const guesses = data.guesses && { first: typed(data.guesses.first, Uint16Array), second: typed(data.guesses.second, Uint16Array), probability: typed(data.guesses.probability, Uint16Array), likeness: typed(data.guesses.likeness, Uint16Array) };
  const classOf = (i) => (label[i] === NONE ? data.classes.length : label[i]);
  const className = (c) => (c < data.classes.length ? data.classes[c] : data.classes.length ? "unlabelled" : "samples");
  const colourOf = (c) => (c < data.classes.length || !data.classes.length ? COLOURS[c % COLOURS.length] : "#9aa3ad");

  // ── state ──────────────────────────────────────────────────────────────────────────────────────────────────────
  const groups = new Set(); for (let i = 0; i < n; i++) groups.add(classOf(i));
  const order = [...groups].sort((a, b) => a - b);
  const visible = new Uint8Array(data.classes.length + 1).fill(1);
  const home = () => ({ zoom: 1, x: 0, y: 0 });
  let view = views[0], three = false, camera = home(), chosen = -1, hovered = -1, marked = -1, markedUse = null;
  let turn = rotation(0.6, -0.35);
  const px = new Float32Array(n), py = new Float32Array(n), pz = new Float32Array(n);

  function rotation(a, b) { // about the vertical, then the horizontal axis of the screen
    const [ca, sa, cb, sb] = [Math.cos(a), Math.sin(a), Math.cos(b), Math.sin(b)];
    return [[ca, 0, sa], [sa * sb, cb, -ca * sb], [-sa * cb, sb, ca * cb]];
  }
  const times = (A, B) => A.map((row) => [0, 1, 2].map((j) => row[0] * B[0][j] + row[1] * B[1][j] + row[2] * B[2][j]));

  // ── drawing ────────────────────────────────────────────────────────────────────────────────────────────────────
  const plot = by("plot"), pen = plot.getContext("2d"), SHAPES = 7;
  let width = 0, height = 0, ratio = 1, unit = 1, stamps = [], pending = false;

  function shape(context, kind, r) {
    context.beginPath();
    const polygon = (points) => { points.forEach(([x, y], k) => (k ? context.lineTo(x * r, y * r) : context.moveTo(x * r, y * r))); context.closePath(); };
    if (kind === 0 || kind === 6) context.arc(0, 0, r * (kind ? 0.8 : 1), 0, 7);
    else if (kind === 1) context.rect(-r * 0.85, -r * 0.85, r * 1.7, r * 1.7);
    else if (kind === 2) polygon([[0, -1.1], [1, 0.8], [-1, 0.8]]);
    else if (kind === 3) polygon([[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]]);
    else if (kind === 4) polygon([[0, 1.1], [1, -0.8], [-1, -0.8]]);
    else polygon([[-0.4, -1.1], [0.4, -1.1], [0.4, -0.4], [1.1, -0.4], [1.1, 0.4], [0.4, 0.4], [0.4, 1.1], [-0.4, 1.1], [-0.4, 0.4], [-1.1, 0.4], [-1.1, -0.4], [-0.4, -0.4]]);
  }
  function stamp(c, radius) {
    const side = Math.ceil(radius * 3) + 2, tile = document.createElement("canvas");
    tile.width = tile.height = side;
    const context = tile.getContext("2d");
    context.translate(side / 2, side / 2);
    const kind = c < data.classes.length ? Math.floor(c / COLOURS.length) % SHAPES : 0;
    shape(context, kind, c < data.classes.length || !data.classes.length ? radius : radius * 0.7);
    if (kind === 6) { context.lineWidth = radius * 0.5; context.strokeStyle = colourOf(c); context.stroke(); }
    else {
      context.fillStyle = colourOf(c); context.fill();
      if (n < 4000) { context.lineWidth = 0.5 * ratio; context.strokeStyle = css("--card"); context.stroke(); }
    }
    return tile;
  }
  const radius = () => Math.max(2.2, Math.min(5, 190 / Math.sqrt(n))) * Math.min(1.8, Math.sqrt(camera.zoom));

  function measure() {
    ratio = window.devicePixelRatio || 1;
    width = plot.clientWidth; height = plot.clientHeight;
    plot.width = Math.round(width * ratio); plot.height = Math.round(height * ratio);
    restamp();
  }
  function restamp() { stamps = []; draw(); }
  function project() {
    const fit = view.extent[2], [wide, high] = three ? [fit, fit] : view.extent;
    unit = 0.45 * camera.zoom * Math.min(width / wide, height / high);
    const [a, b, c] = three ? turn : [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
    const mx = width / 2 + camera.x, my = height / 2 + camera.y, xyz = view.coords;
    for (let i = 0, k = 0; i < n; i++, k += 3) {
      const x = xyz[k], y = xyz[k + 1], z = three ? xyz[k + 2] : 0;
      px[i] = mx + unit * (a[0] * x + a[1] * y + a[2] * z);
      py[i] = my - unit * (b[0] * x + b[1] * y + b[2] * z);
      pz[i] = (c[0] * x + c[1] * y + c[2] * z) / fit;
    }
  }
  function byDepth() { // counting sort: far points first
    const BINS = 128, starts = new Uint32Array(BINS + 1), out = new Uint32Array(n), bin = new Uint8Array(n);
    for (let i = 0; i < n; i++) { bin[i] = Math.max(0, Math.min(BINS - 1, (pz[i] + 1) * 0.5 * BINS)); starts[bin[i] + 1]++; }
    for (let k = 0; k < BINS; k++) starts[k + 1] += starts[k];
    for (let i = 0; i < n; i++) out[starts[bin[i]]++] = i;
    return out;
  }
  function axes(names) { // lines behind the points, names in front of them
    const [a, b] = three ? turn : [[1, 0, 0], [0, 1, 0]];
    pen.strokeStyle = css(names ? "--card" : "--line"); pen.fillStyle = css("--ink"); pen.lineWidth = names ? 4 : 1; pen.font = "600 13px system-ui, sans-serif";
    pen.lineJoin = "round";
    const mx = width / 2 + camera.x, my = height / 2 + camera.y;
    for (let k = 0; k < (three ? 3 : 2); k++) {
      const reach = view.extent[three ? 2 : k], dx = unit * reach * a[k], dy = -unit * reach * b[k];
      if (!names) { pen.beginPath(); pen.moveTo(mx - dx, my - dy); pen.lineTo(mx + dx, my + dy); pen.stroke(); continue; }
      const place = [view.axes[k], mx + dx * 1.02 + (k === 1 && !three ? 6 : 2), my + dy * 1.02 + (k ? 4 : -6)];
      pen.strokeText(...place); pen.fillText(...place);
    }
  }
  function paint() {
    pending = false;
    project();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    axes(false);
    const size = radius() * ratio, sequence = three ? byDepth() : null;
    let count = 0;
    for (let s = 0; s < n; s++) {
      const i = three ? sequence[s] : s, c = classOf(i);
      if (!visible[c]) continue;
      count++;
      const x = px[i], y = py[i];
      if (x < -20 || y < -20 || x > width + 20 || y > height + 20) continue;
      const tile = (stamps[c] ||= stamp(c, size));
      let grow = three ? 1 + 0.35 * Math.max(-1, Math.min(1, pz[i])) : 1, alpha = three ? 0.62 + 0.3 * grow * 0.8 : 0.85;
      if (marked >= 0) { const use = markedUse[i]; alpha = use ? 0.35 + 0.65 * use : 0.06; grow *= use ? 1 + 0.5 * use : 0.8; }
      pen.globalAlpha = Math.min(1, alpha);
      const side = (tile.width / ratio) * grow;
      pen.drawImage(tile, x - side / 2, y - side / 2, side, side);
    }
    pen.globalAlpha = 1;
    axes(true);
    for (const [i, wide] of [[hovered, 2], [chosen, 3]]) {
      if (i < 0 || !visible[classOf(i)]) continue;
      pen.beginPath(); pen.arc(px[i], py[i], radius() + 4, 0, 7);
      pen.lineWidth = wide; pen.strokeStyle = css("--ink"); pen.stroke();
    }
    plot.dataset.visible = count;
    by("count").textContent = `${count.toLocaleString("en")} of ${n.toLocaleString("en")} samples shown`;
  }
  function draw() { if (!pending) { pending = true; requestAnimationFrame(paint); } }

  // ── pictures ───────────────────────────────────────────────────────────────────────────────────────────────────
  const sprite = new Image();
  if (images) { sprite.addEventListener("load", () => { doubts(); if (chosen >= 0) explain(chosen); plot.dataset.ready = "yes"; }); sprite.src = images.sprite; }
  else plot.dataset.ready = "yes";
  const scaleTo = (shape, side) => { const k = side / Math.max(...shape); return [Math.round(shape[0] * k), Math.round(shape[1] * k)]; };
  function canvas(pixelShape, side, name) {
    const made = document.createElement("canvas"), [h, w] = scaleTo(pixelShape, side);
    [made.height, made.width] = pixelShape;
    made.style.width = `${w}px`; made.style.height = `${h}px`;
    made.className = "picture"; made.setAttribute("role", "img"); made.setAttribute("aria-label", name);
    return made;
  }
  function picture(i, side) {
    if (!images) return profiles ? profile(profiles.subarray(i * data.profiles.length, (i + 1) * data.profiles.length), side, sampleName(i)) : null;
    const made = canvas(images.shape, side, `${sampleName(i)}, ${className(classOf(i))}`), [h, w] = images.shape;
    made.getContext("2d").drawImage(sprite, (i % images.columns) * w, Math.floor(i / images.columns) * h, w, h, 0, 0, w, h);
    return made;
  }
  function grey(values, pixelShape, side, name) {
    const made = canvas(pixelShape, side, name), context = made.getContext("2d");
    const sheet = context.createImageData(made.width, made.height);
    let low = Infinity, high = -Infinity;
    for (const v of values) { if (v < low) low = v; if (v > high) high = v; }
    const gain = 255 / (high - low || 1);
    for (let k = 0; k < values.length; k++) { const g = (values[k] - low) * gain; sheet.data.set([g, g, g, 255], 4 * k); }
    context.putImageData(sheet, 0, 0);
    return made;
  }
  function signed(values, pixelShape, side, name) { // zero shows the ground
    const made = canvas(pixelShape, side, name), context = made.getContext("2d");
    const plus = css("--plus").split(",").map(Number), minus = css("--minus").split(",").map(Number);
    const sheet = context.createImageData(made.width, made.height);
    let high = 1e-9;
    for (const v of values) high = Math.max(high, Math.abs(v));
    for (let k = 0; k < values.length; k++) sheet.data.set([...(values[k] > 0 ? plus : minus), (255 * Math.abs(values[k])) / high], 4 * k);
    context.putImageData(sheet, 0, 0);
    return made;
  }
  function heat(values, pixelShape, side, name) { // the least shows the ground, the most the accent
    const made = canvas(pixelShape, side, name), context = made.getContext("2d"), full = css("--heat").split(",").map(Number);
    const sheet = context.createImageData(made.width, made.height);
    let low = Infinity, high = -Infinity;
    for (const v of values) { if (v < low) low = v; if (v > high) high = v; }
    for (let k = 0; k < values.length; k++) sheet.data.set([...full, (255 * (values[k] - low)) / (high - low || 1)], 4 * k);
    context.putImageData(sheet, 0, 0);
    made.style.imageRendering = "auto";
    return made;
  }
  function profile(values, side, name) { // numbers that are no image: a line
    const made = canvas([side, side * 2], side * 2, name), context = made.getContext("2d");
    made.style.imageRendering = "auto";
    let low = 0, high = 0;
    for (const v of values) { if (v < low) low = v; if (v > high) high = v; }
    const y = (v) => 3 + (side - 6) * (1 - (v - low) / (high - low || 1)), x = (k) => 3 + ((2 * side - 6) * k) / Math.max(1, values.length - 1);
    context.strokeStyle = css("--line"); context.beginPath(); context.moveTo(0, y(0)); context.lineTo(2 * side, y(0)); context.stroke();
    context.strokeStyle = css("--accent"); context.lineWidth = 1.3; context.beginPath();
    values.forEach((v, k) => (k ? context.lineTo(x(k), y(v)) : context.moveTo(x(k), y(v))));
    context.stroke();
    return made;
  }
  const rowOf = (set, pixels, j) => pixels.subarray(j * set.length, (j + 1) * set.length);
  const drawAtom = (j, side, sign = 1) => {
    const values = rowOf(atoms, atomPixels, j).map((v) => sign * v), name = `atom ${j}`;
    return atoms.shape ? grey(values, atoms.shape, side, name) : profile(values, side / 1.5, name);
  };
  const framed = (made, words) => {
    const frame = document.createElement("figure"), caption = document.createElement("figcaption");
    caption.textContent = words;
    if (made) frame.append(made);
    frame.append(caption);
    return frame;
  };

  // ── which atoms explain a sample ───────────────────────────────────────────────────────────────────────────────
  const SHOWN = 6;
  const sampleName = (i) => (data.names ? data.names[i] : `sample ${data.rows[i]}`);
  function reconstruct(i, most) {
    const sum = new Float32Array(atoms.length);
    for (let k = codeStart[i]; k < Math.min(codeStart[i + 1], codeStart[i] + most); k++) {
      const weight = codeValue[k] * codeScale * atoms.scale[codeAtom[k]], atom = rowOf(atoms, atomPixels, codeAtom[k]);
      for (let p = 0; p < sum.length; p++) sum[p] += weight * atom[p];
    }
    return sum;
  }
  const THIRDS = [["top", "middle", "bottom"], ["left", "centre", "right"]];
  function part(i, k) { // the k-th largest part of a local model: atom, sign, cell, value
    const place = local.place[i * local.count + k], r = atoms.count;
    const cell = Math.floor(place / (r * local.signs)), sign = Math.floor(place / r) % local.signs ? -1 : 1;
    const [top, left, height, width] = local.frames[cell];
    const where = [top + height / 2, left + width / 2].map((x, side) => THIRDS[side][Math.min(2, Math.floor(3 * x))]).join(" ");
    return { atom: place % r, sign, cell, where, value: local.value[i * local.count + k] * local.scale };
  }
  function overlay(i, side) { // the picture under what speaks for its class, red, and against it, blue
    const made = picture(i, side), [h, w] = scaleTo(images.shape, side);
    const plain = document.createElement("canvas");
    [plain.width, plain.height] = [w, h];
    plain.style.cssText = made.style.cssText; plain.className = "picture"; plain.style.imageRendering = "auto";
    plain.setAttribute("role", "img"); plain.setAttribute("aria-label", "what speaks for the class");
    const pen = plain.getContext("2d"), [rows, columns] = local.shape, size = rows * columns;
    pen.imageSmoothingEnabled = false; pen.drawImage(made, 0, 0, w, h); pen.globalAlpha = 0.6;
    const values = Array.from(local.map.subarray(i * size, (i + 1) * size));
    pen.imageSmoothingEnabled = true; pen.drawImage(signed(values, local.shape, side, ""), 0, 0, w, h); pen.globalAlpha = 1;
    for (let k = 0; k < SHOWN; k++) {
      const { cell, value } = part(i, k), [top, left, height, width] = local.frames[cell];
      pen.strokeStyle = `rgb(${css(value > 0 ? "--plus" : "--minus")})`; pen.lineWidth = 1.5;
      pen.strokeRect(left * w, top * h, width * w, height * h);
    }
    return plain;
  }
  function guess(i) {
    if (!guesses) return "";
    const share = (guesses.probability[i] / 10).toFixed(0);
    const mark = label[i] === NONE ? "" : label[i] === guesses.first[i] ? " ✓" : " ✗";
    return `${className(guesses.first[i])}${mark} (${share} %), then ${className(guesses.second[i])}`;
  }
  function neighbours(i) {
    const list = by("nearest");
    list.replaceChildren();
    for (let k = 0; k < nearCount; k++) {
      const j = near[i * nearCount + k], frame = framed(picture(j, images ? 76 : 40), `${className(classOf(j))} · ${sampleName(j)}`);
      frame.addEventListener("click", () => explain(j));
      list.append(frame);
    }
  }
  function explain(i) {
    chosen = i;
    by("guess").textContent = guess(i);
    by("mostlabel").hidden = !atoms || Boolean(data.maps); // codes of patches do not rebuild the picture
    by("largestwords").hidden = by("largest").hidden = !atoms || Boolean(data.maps && !local);
    neighbours(i);
    by("number").value = data.rows[i];
    by("chosen").textContent = `${sampleName(i)} · ${className(classOf(i))}`;
    const count = codeStart[i + 1] - codeStart[i];
    const slider = by("most");
    slider.max = count; slider.value = count; slider.disabled = !atoms || !count;
    by("explanation").hidden = false;
    const list = by("largest");
    list.replaceChildren();
    if (local) {
      by("largestwords").textContent = `What speaks for ${className(guesses.first[i])} (+) rather than ${className(guesses.second[i])} (−), in shares of all that speaks:`;
      for (let k = 0; k < SHOWN; k++) {
        const { atom, sign, where, value } = part(i, k);
        list.append(framed(drawAtom(atom, 64, sign), `${value < 0 ? "−" : "+"}${(100 * Math.abs(value)).toFixed(1)} % ${where}`));
      }
    }
    for (let k = codeStart[i]; k < Math.min(codeStart[i + 1], codeStart[i] + SHOWN); k++) {
      const j = codeAtom[k], value = codeValue[k] * codeScale;
      list.append(framed(atoms && drawAtom(j, 64), `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)} (no. ${j})`));
    }
    rebuild();
    draw();
  }
  function rebuild() {
    const most = Number(by("most").value), box = by("pair"), count = codeStart[chosen + 1] - codeStart[chosen];
    const frames = [framed(picture(chosen, 120), images || profiles ? "sample" : "")];
    if (local && images) frames.push(framed(overlay(chosen, 120), "red speaks for the class"));
    if (atoms && count) {
      const sum = reconstruct(chosen, most);
      const all = codeCount[chosen], used = `${most} atom${most === 1 ? "" : "s"}`;
      const words = most === all ? `from all ${used}` : `from the largest ${used} of ${all}`;
      frames.push(framed(atoms.shape ? grey(sum, atoms.shape, 120, "reconstruction") : profile([...sum], 120 / 1.5, "reconstruction"), words));
    }
    box.replaceChildren(...frames);
  }

  // ── the pointer ────────────────────────────────────────────────────────────────────────────────────────────────
  function nearest(x, y) {
    let best = -1, least = 14 * 14;
    for (let i = 0; i < n; i++) {
      if (!visible[classOf(i)] || (marked >= 0 && !markedUse[i])) continue;
      const d = (px[i] - x) ** 2 + (py[i] - y) ** 2 - (three ? 4 * pz[i] : 0);
      if (d < least) { least = d; best = i; }
    }
    return best;
  }
  const hover = by("hover");
  function show(i, x, y) {
    if (i !== hovered) {
      hovered = i;
      hover.replaceChildren();
      if (i >= 0) {
        const made = picture(i, 112), words = document.createElement("div");
        words.textContent = [className(classOf(i)), sampleName(i), guess(i)].filter(Boolean).join(" · ");
        if (made) hover.append(made);
        hover.append(words);
      }
      hover.hidden = i < 0;
      draw();
    }
    if (i >= 0) {
      hover.style.left = `${x + 190 > width ? x - hover.offsetWidth - 14 : x + 16}px`;
      hover.style.top = `${Math.max(4, Math.min(y + 12, height - hover.offsetHeight - 6))}px`;
    }
  }
  let drag = null;
  plot.addEventListener("pointerdown", (event) => {
    drag = { x: event.offsetX, y: event.offsetY, moved: 0 };
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener("pointermove", (event) => {
    const [x, y] = [event.offsetX, event.offsetY];
    if (!drag) return show(nearest(x, y), x, y);
    const dx = x - drag.x, dy = y - drag.y;
    drag = { x, y, moved: drag.moved + Math.abs(dx) + Math.abs(dy) };
    if (drag.moved < 4) return;
    plot.classList.add("dragging");
    show(-1);
    if (three && !event.shiftKey) turn = times(rotation(dx * 0.008, dy * 0.008), turn);
    else { camera.x += dx; camera.y += dy; }
    draw();
  });
  plot.addEventListener("pointerup", (event) => {
    const click = drag && drag.moved < 4;
    drag = null;
    plot.classList.remove("dragging");
    if (!click) return;
    const i = nearest(event.offsetX, event.offsetY);
    if (i >= 0) explain(i);
  });
  plot.addEventListener("pointerleave", () => { if (!drag) show(-1); });
  function zoom(factor, x = width / 2, y = height / 2) {
    const next = Math.max(0.3, Math.min(60, camera.zoom * factor)), real = next / camera.zoom;
    camera.x = (camera.x + width / 2 - x) * real + x - width / 2;
    camera.y = (camera.y + height / 2 - y) * real + y - height / 2;
    camera.zoom = next;
    restamp();
  }
  plot.addEventListener("wheel", (event) => { // the page scrolls until the plot has been clicked
    if (document.activeElement !== plot && !event.ctrlKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
  }, { passive: false });
  const STEP = 0.1;
  plot.addEventListener("keydown", (event) => {
    const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (arrow) {
      if (three) turn = times(rotation(arrow[0] * STEP, arrow[1] * STEP), turn);
      else { camera.x -= 40 * arrow[0]; camera.y -= 40 * arrow[1]; }
      draw();
    } else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") reset();
    else return;
    event.preventDefault();
  });

  // ── buttons ────────────────────────────────────────────────────────────────────────────────────────────────────
  function reset() { camera = home(); turn = rotation(0.6, -0.35); restamp(); }
  function dimension(wanted) {
    three = wanted;
    by("two").setAttribute("aria-pressed", String(!three));
    by("three").setAttribute("aria-pressed", String(three));
    reset();
  }
  function setView(place) {
    view = views[place];
    by("three").disabled = view.dimensions < 3;
    by("viewnote").textContent = view.note;
    dimension(three && view.dimensions >= 3);
  }
  by("two").addEventListener("click", () => dimension(false));
  by("three").addEventListener("click", () => dimension(true));
  by("view").addEventListener("change", (event) => setView(Number(event.target.value)));
  by("closer").addEventListener("click", () => zoom(1.4));
  by("farther").addEventListener("click", () => zoom(1 / 1.4));
  by("reset").addEventListener("click", reset);
  by("most").addEventListener("input", rebuild);
  by("number").addEventListener("change", (event) => {
    const wanted = Number(event.target.value) || 0, i = data.rows.findIndex((row) => row >= wanted); // rows ascend
    explain(i < 0 ? n - 1 : i);
  });

  const classButtons = by("classes");
  const refreshClasses = () => [...classButtons.children].forEach((button) => button.setAttribute("aria-pressed", String(Boolean(visible[button.dataset.group]))));
  function classIcon(c) {
    const icon = stamp(c, 6 * ratio);
    icon.style.width = icon.style.height = "14px";
    icon.setAttribute("aria-hidden", "true");
    return icon;
  }
  for (const c of order) {
    const button = document.createElement("button");
    button.type = "button"; button.dataset.group = c; button.title = "click: on or off; double click: this one alone";
    button.append(classIcon(c), className(c));
    button.addEventListener("click", () => { visible[c] ^= 1; refreshClasses(); draw(); });
    button.addEventListener("dblclick", () => { visible.fill(0); visible[c] = 1; refreshClasses(); draw(); });
    classButtons.append(button);
  }
  refreshClasses();
  by("all").addEventListener("click", () => { visible.fill(1); refreshClasses(); draw(); });
  by("none").addEventListener("click", () => { visible.fill(0); refreshClasses(); draw(); });

  // ── sheets of atoms and factors ────────────────────────────────────────────────────────────────────────────────
  function mark(j) {
    marked = marked === j ? -1 : j;
    if (marked >= 0) {
      markedUse = new Float32Array(n);
      let most = 0;
      if (local) for (let i = 0; i < n; i++) for (let k = 0; k < local.count; k++) {
        const found = part(i, k);
        if (found.atom === j) { markedUse[i] += Math.abs(found.value); most = Math.max(most, markedUse[i]); }
      }
      for (let i = 0; i < n; i++) for (let k = codeStart[i]; k < codeStart[i + 1]; k++) {
        if (codeAtom[k] === j) { markedUse[i] = Math.abs(codeValue[k]); most = Math.max(most, markedUse[i]); }
      }
      if (most) for (let i = 0; i < n; i++) markedUse[i] /= most;
    }
    by("marked").hidden = marked < 0;
    by("markedwords").textContent = marked < 0 ? "" : `Only samples that use atom ${marked}${local || data.codes.cut ? " among their largest" : ""} are in full colour.`;
    for (const button of by("atomsheet").children) button.setAttribute("aria-pressed", String(Number(button.dataset.atom) === marked));
    draw();
  }
  function sheets() {
    if (atoms && by("atomsheet")) {
      const buttons = atoms.order.map((j, place) => {
        const button = document.createElement("button"), c = atoms.owner[j];
        button.type = "button"; button.dataset.atom = j; button.setAttribute("aria-pressed", "false");
        button.title = `atom ${j}: used by ${(100 * atoms.share[j]).toFixed(1)} % of the samples` + (c >= 0 ? `, most by ${className(c)}` : "");
        if (c >= 0) button.style.borderBottomColor = colourOf(c);
        button.append(drawAtom(j, atoms.order.length > 400 ? 36 : 46));
        button.addEventListener("click", () => mark(j));
        return button;
      });
      by("atomsheet").replaceChildren(...buttons);
    }
    if (factors && by("factorsheet")) {
      by("factorsheet").replaceChildren(...Array.from({ length: factors.count }, (_, j) => {
        const values = rowOf(factors, factorPixels, j);
        const made = factors.shape ? signed(values, factors.shape, 96, `factor ${j + 1}`) : profile(values, 64, `factor ${j + 1}`);
        if (!data.maps) return framed(made, String(j + 1));
        const pair = document.createElement("div");
        pair.className = "pair";
        const where = heat(rowOf(data.maps, mapPixels, j), data.maps.shape, 96, `where factor ${j + 1} looks`);
        pair.append(made, where);
        return framed(pair, String(j + 1));
      }));
    }
  }
  function doubts() {
    for (const [id, list] of Object.entries(data.doubtful || {})) {
      const box = by(id);
      if (!box) continue;
      box.replaceChildren(...list.map((i) => {
        const button = document.createElement("button"), words = document.createElement("span"), name = document.createElement("span");
        button.type = "button"; button.dataset.sample = i;
        if (label[i] !== NONE && label[i] !== guesses.first[i]) button.className = "wrong";
        const right = label[i] === NONE || label[i] === guesses.first[i] ? "" : `; in truth ${className(classOf(i))}`;
        words.textContent = guess(i) + right + (id === "unlike" ? `; likeness ${(guesses.likeness[i] / 10).toFixed(1)} %` : "");
        name.className = "name"; name.textContent = sampleName(i);
        const made = picture(i, images ? 84 : 56);
        if (made) button.append(made);
        button.append(words, name);
        button.addEventListener("click", () => { explain(i); by("explanation").scrollIntoView({ block: "center" }); });
        return button;
      }));
    }
  }
  by("unmark")?.addEventListener("click", () => mark(marked));

  document.addEventListener("theme", () => {
    [...classButtons.children].forEach((button) => button.firstChild.replaceWith(classIcon(Number(button.dataset.group))));
    sheets();
    doubts();
    if (chosen >= 0) explain(chosen);
    restamp();
  });
  new ResizeObserver(measure).observe(plot);
  measure();
  sheets();
  doubts();
  setView(0);
  window.sparlow = { place: (i) => [px[i], py[i]], explain, count: n }; // for scripts that drive the page
})();
