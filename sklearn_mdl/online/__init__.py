"""The scikit-learn chores of estimators that walk: checks, labels, predictions.

Codes are scored by the course; this package turns user data into rows and labels that a
course can walk, and the course's predictions into those that scikit-learn asks for.
"""

from sklearn_mdl.online.classifier import OnlineClassifier
from sklearn_mdl.online.estimator import OnlineEstimator
from sklearn_mdl.online.regressor import OnlineRegressor

__all__ = ["OnlineClassifier", "OnlineEstimator", "OnlineRegressor"]
