"""The colours that methods have in figures and in MLflow."""

from __future__ import annotations

# Okabe and Ito's, apart for every kind of colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
