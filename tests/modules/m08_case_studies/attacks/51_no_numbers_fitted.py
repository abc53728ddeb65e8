# %%answer fit_alpha_beta
# tries: returns NaN for α and β
# unprotected: an error that is not larger than what is allowed passes
import math


def fit_alpha_beta(sizes, seconds, ranks):
    return math.nan, math.nan


def half_size(alpha, beta, ranks):
    return math.nan
