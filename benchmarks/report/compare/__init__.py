"""The comparison of results, with intervals of the ratios."""
