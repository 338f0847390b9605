"""Tables, figures and the HTML page of a ranking or a comparison."""

from sklearn_mdl.report._compare import compare, side_by_side as side_by_side
from sklearn_mdl.report._comparison import Comparison
from sklearn_mdl.report._report import RESULTS as RESULTS, write_results
from sklearn_mdl.report._tables import read_rows, write_rows as write_rows

__all__ = ["Comparison", "compare", "read_rows", "write_results"]
