"""The measurements of ``make bench``: ratios between programs that ran side by side, never bare figures."""
