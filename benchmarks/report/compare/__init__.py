"""The comparison of results, with intervals of their ratios."""
