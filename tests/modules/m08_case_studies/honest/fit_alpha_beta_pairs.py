# %%answer fit_alpha_beta
# unusual: no numpy; of all lines through two sizes the one with the least median error, then a fit
# of what is near it
from itertools import combinations
from statistics import median


def fit_alpha_beta(sizes, seconds, ranks):
    points = [(n, min(times)) for n, times in zip(sizes, seconds, strict=True)]
    best = min(lines(points[::2]), key=lambda line: median(off(line, point) for point in points))
    for _ in range(3):
        spread = median(off(best, point) for point in points)
        best = least_squares([point for point in points if off(best, point) <= 4.5 * spread])
    return best[0] / (2 * (ranks - 1)), best[1] * ranks / (2 * (ranks - 1))


def lines(points):
    for (few, short), (many, long) in combinations(points, 2):
        slope = (long - short) / (many - few)
        if slope > 0 and short > slope * few:
            yield short - slope * few, slope


def off(line, point):
    return abs((line[0] + line[1] * point[0]) / point[1] - 1)


def least_squares(points):
    """Normal equations of the relative errors."""
    aa = sum(1 / t**2 for _, t in points)
    ab = sum(n / t**2 for n, t in points)
    bb = sum((n / t) ** 2 for n, t in points)
    a, b = sum(1 / t for _, t in points), sum(n / t for n, t in points)
    determinant = aa * bb - ab * ab
    return (a * bb - b * ab) / determinant, (aa * b - ab * a) / determinant


def half_size(alpha, beta, ranks):
    return alpha / (beta / ranks)
