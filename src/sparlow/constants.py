"""The numbers that change what a fit gives, each with its reason.

What a user may want to choose is a parameter. Here is the rest, from the dictionary to the prediction.
"""

import math

# Atoms and their prior.
SAMPLES_PER_ATOM = 2  # an atom shared by fewer samples describes single ones
FEWEST_ATOMS = 100  # more than there are dimensions in small images
MOST_ATOMS = 1000  # the time of a code grows with their number
ATOMS_PER_CLASS = 10  # each class varies in several directions
LOCAL_ATOMS = 128  # patches have few dimensions, and there are many of them
L1 = 0.15  # share of the distance of samples from their mean, which is what atoms tell apart
L2 = 0.2  # codes are steady where atoms are alike
MILD = 0.125  # share of the usual l1 where codes are to keep more of the sample
LOCAL_L1, LOCAL_L2 = 0.1, 0.1  # patches have about unit norm
ALIKE = 0.99  # atoms with a cosine of larger magnitude count as duplicates

# Samples and views.
TABLE = 100  # columns up to which samples may be a table, whose rows need not be alike in norm
UNLIKE_COLUMNS = 0.2  # share of the columns that hold the variance, below which columns have unlike units
ONE_COLUMN = 1.5  # columns that hold the variance, below which one has nearly all of it
STANDARDISED = 0.2  # means, in deviations, and differences of deviations, that are chance in standardised columns
PLACES = 2500  # patches of one image, at most, where the stride is left open: time is proportional
FLAT_PATCH = 0.5  # norm of a patch whose contrast is that which is added to the norm: it is no atom

# Learning of dictionaries without labels.
DRAWN = 20_000  # samples drawn for defaults, first dictionary and quadratic embedding: bounds time and memory
DRAWN_OF_EACH = 20  # samples of each class among these: rare classes have atoms, too
PASSES = 5  # passes over them for the first dictionary, where steps follow
HEAD_START = 2  # passes of the online method before K-SVD
LITTLE = 0.2  # an atom with less than this share of the mean number of users is replaced
DEAD = 1e-6  # an atom whose codes have less than this share of the mean energy is dead
ONLINE_FORGETTING = 3.0  # the i-th of N samples counts (i/N) to this power: early codes are of other dictionaries

# Steps of dictionary and embedding.
BATCH = 200  # samples of a step, or half as many as there are atoms, so that these do not rule the cost
MOVE = 0.02  # distance that atoms move in the first steps, for 200 samples; it grows with the root of their number
FORGETTING = 2.0  # the same for steps of dictionary and embedding
WARM = 2.0  # samples that the sums need before the first step, for each feature: covariances have full rank
LEARNING_TOL = 1e-4  # optimality gap of codes while learning, and of those of descriptors
SEEN = 200_000  # samples that steps are made with at most, where ``max_iter`` passes have more
FIRST_MOVE = 0.03  # root mean square distance of the atoms in the first step of the ascent
PROJECTION_TOL = 1e-6  # how well U is solved for, relative to f: convergence is quadratic, the last turn gives more
WIDE_FEATURES = 2000  # features up to which U is solved for in all directions
WIDE_DIRECTIONS = 500  # principal directions in which it is solved for beyond that: time is cubic

# Embedding.
RIDGES = (0.1, 0.5, 2.0, math.inf)  # tried for codes, in multiples of the variance of one sample
RIDGES_BESIDE = (0.03, 0.1, 0.3, 1.0, 10.0, math.inf)  # tried for the samples beside them
USUAL = (0.5, 0.3)  # where held-out samples do not say otherwise
FEW = (2.0, 0.3)  # most samples have no label: codes need a stronger ridge
POOLED = (0.1, math.inf)  # pooled codes of views stand alone
FLAT = (math.inf, 100.0)  # a wide embedding has nearly the distances of the samples
BESIDE = 2.0  # deviation of samples, in multiples of that of their codes, where there are no labels
SHRINKAGE = 1.0  # of a trace quotient for itself: directions of little scatter do not rule it
WIDE = 48  # columns of a wide embedding: time is proportional
COUNTS = 16  # numbers of components that are tried on held-out samples, in equal ratios
FORM_DIRECTIONS = 800  # leading directions of the features in quadratic forms: their number is the square
FORM_RANK = 256  # combinations of directions that the forms keep
KERNEL = 10_000  # samples of one kernel matrix where it is the only one: memory is the square
KERNEL_PART = 8000  # the same where there are several
FALL = 0.9  # of the error of regression, which decides the order where neighbours tell no difference

# Criteria.
MFA_EDGES = 1_500_000  # edges of the graph within classes of MFA: time is proportional
TARGETS = 1000.0  # μ₂ where the targets are not classes
FEWEST_NEIGHBOURS, MOST_NEIGHBOURS = 3, 10  # of a graph where labels are few: more would join most of a small set
HEAVIEST = 10.0  # weight of the closest pair over that of the farthest: more, and one pair would rule the projection
SHARPER = 1.5  # power of shares: spreading mixes classes, and plain shares are less sure than they are right
SPREADINGS = 4  # rounds in which labels spread in the embedding, and the embedding is solved anew
POOLED_DIRECTIONS = 256  # leading directions of pooled codes that neighbours are searched in

# What held-out samples choose.
TRIED = 3000  # labelled samples that choices are tried on: a third of them tell an accuracy to about a point
MANY = 2000  # labelled samples from which on one part held out tells enough; a stream keeps as many
FOLDS = 3  # parts held out of fewer; each class has a sample in each
WORTH = 0.01  # what a less plain option must add to their accuracy
COSTS = (1.0, 10.0, 100.0)  # of the support vector machine
WIDTHS = (0.25, 1.0, 4.0)  # gamma of its kernel, in units of 1 / total variance

# Predictions.
VOTERS = 2048  # samples that vote: the time of a prediction is proportional
VOTERS_OF_EACH = 10  # of a class, where it has as many samples
NEAREST = 50  # voters whose votes are counted
UNIFORM = 0.01  # share of q that goes to classes by their size: no class has probability zero

# Neighbours of many samples.
EXACT = 60_000  # samples up to which neighbours are searched exactly
EXACT_CLASSES = 100_000  # the same for neighbours of classes, where an approximate search finds fewer of them
CELL = 512  # samples of a cell of the approximate search at most
PROBED = 20_000  # samples of its class, and of other classes, that a sample is compared with there

# Streams.
RESERVOIR = 60_000  # samples that are kept for predictions, where a quarter of the working memory holds them
CODED = 1.9  # times that a sample is coded at most, on average: fewer than two passes
GROWTH = 1.1  # samples seen, relative to those of the last model, from which on there is a new one
SOONER = 4  # samples seen, relative to those that a stream began with, from which on it begins again

# Images and other classifiers.
UNLIKELY = 1e-3  # posteriors below this count as zero
SWEEPS = 3  # how often the codes of templates are pulled towards each other
NARROWEST = 0.01  # variance of a Gaussian of a mixture, as a share of that of the sample
BMDDL_NEIGHBOURS = 5  # samples whose labels BMDDL propagates
TDDL_FASTER = 10.0  # rate of W and b relative to that of D
