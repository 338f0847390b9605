"""Base classes of estimators that predict each example before they learn it."""
