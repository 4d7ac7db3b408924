"""Time series: reading, rules for imperfect data, times, scaling and windows."""
