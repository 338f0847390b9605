"""The walk: predict a minibatch, only then see its labels, learn from them, go on.

A *learner* is whatever has ``log_proba`` and ``update``: a stack of readouts, an
adapted classifier, an encoder that learns. ``walk`` leads one learner over rows as a
coroutine that yields log-probabilities and is sent labels; no label can leak into its
own prediction, because it does not exist yet when the prediction is made. ``Course``
leads many learners over one stream, segment by segment, and keeps the trace that
everything else reads.
"""

from sklearn_mdl.prequential.course import Course
from sklearn_mdl.prequential.learner import Learner, Rereader
from sklearn_mdl.prequential.walking import WalkState, score, walk

__all__ = ["Course", "Learner", "Rereader", "WalkState", "score", "walk"]
