"""Ranks against hand-worked tables, published constants and the paper's tables.

``data/vtab_codelengths.csv`` is the paper's own table of codelengths per example (Li,
Bornschein and Hutter, 2023, Appendix A.7). It is printed to two decimals, which makes
ties that the authors' own numbers did not have: their ranks must lie between the lowest
and the highest that breaking those ties can give.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

from sklearn_mdl.ranking import average_ranks, nemenyi_critical_difference

VTAB = Path(__file__).parent / "data" / "vtab_codelengths.csv"

# The paper's MDL ranks; the encoders are those of the table named.
OBJECTIVES = {
    "ViT/B16 DINO": 1.89,
    "ResNet-50 BYOL": 2.53,
    "ViT/B16 MAE": 3.79,
    "ViT/B16 SUP": 4.16,
    "ResNet-50 SimCLR": 4.21,
    "ResNet-50 SUP": 4.42,
}
SIZES = {
    "ResNet-101 BYOL": 3.05,
    "ResNet-152 BYOL": 3.26,
    "ViT/L16 MAE": 3.74,
    "ResNet-50 BYOL": 4.05,
    "ViT/B16 SUP": 6.00,
    "ViT/B16 MAE": 6.21,
    "ResNet-50 SUP": 7.11,
    "ResNet-101 SUP": 7.21,
    "ResNet-152 SUP": 7.47,
    "ViT/L16 SUP": 9.11,
    "ViT/S16 SUP": 10.37,
    "ViT/S16 MAE": 10.42,
}
NATURAL, SPECIALIZED, STRUCTURED = slice(0, 7), slice(7, 11), slice(11, 19)
GROUPS = {
    "ViT/B16 DINO": (1.57, 1.00, 2.63),
    "ResNet-50 BYOL": (2.71, 3.00, 2.13),
    "ViT/B16 MAE": (5.71, 3.25, 2.38),
    "ViT/B16 SUP": (2.86, 3.25, 5.75),
    "ResNet-50 SimCLR": (4.29, 5.75, 3.38),
    "ResNet-50 SUP": (3.86, 4.75, 4.75),
}
PUBLISHED = [
    pytest.param(OBJECTIVES, slice(None), id="objectives"),
    pytest.param(SIZES, slice(None), id="sizes"),
    pytest.param({k: v[0] for k, v in GROUPS.items()}, NATURAL, id="natural"),
    pytest.param({k: v[1] for k, v in GROUPS.items()}, SPECIALIZED, id="specialized"),
    pytest.param({k: v[2] for k, v in GROUPS.items()}, STRUCTURED, id="structured"),
]


@pytest.fixture(scope="module")
def vtab():
    """Codelengths per example in nats, one row of 19 datasets for each encoder."""
    lines = [row for row in VTAB.read_text().splitlines() if not row.startswith("#")]
    rows = list(csv.reader(lines))[1:]
    return {f"{row[0]} {row[1]}": [float(cell) for cell in row[2:]] for row in rows}


def scores_of(vtab, encoders, datasets=slice(None)):
    return np.array([vtab[name][datasets] for name in encoders]).T


class TestAverageRanks:
    def test_hand_worked_table_with_ties(self):
        scores = [
            [0.1, 0.2, 0.3, 0.4],  # 1    2    3    4
            [0.5, 0.5, 0.1, 0.9],  # 2.5  2.5  1    4
            [0.7, 0.7, 0.7, 0.2],  # 3    3    3    1
            [0.3, 0.3, 0.3, 0.3],  # 2.5  2.5  2.5  2.5
        ]
        expected = [9 / 4, 10 / 4, 9.5 / 4, 11.5 / 4]
        np.testing.assert_allclose(average_ranks(scores), expected)

    def test_equals_counting_the_encoders_below(self):
        scores = np.random.default_rng(0).integers(4, size=(30, 6))
        below = (scores[:, None, :] < scores[:, :, None]).sum(axis=2)
        tied = (scores[:, None, :] == scores[:, :, None]).sum(axis=2)
        expected = (below + (tied + 1) / 2).mean(axis=0)
        np.testing.assert_allclose(average_ranks(scores), expected, atol=1e-14)

    def test_monotone_transforms_of_a_dataset_change_nothing(self):
        scores = np.random.default_rng(1).random((5, 4))
        scores[0, 1] = scores[0, 2]
        moved = scores.copy()
        moved[0], moved[1], moved[3] = np.exp(scores[0]), scores[1] * 9, scores[3] ** 3
        np.testing.assert_array_equal(average_ranks(moved), average_ranks(scores))

    def test_permuting_encoders_permutes_their_ranks(self):
        scores = np.random.default_rng(2).integers(5, size=(7, 5))
        order = np.array([4, 2, 0, 1, 3])
        np.testing.assert_allclose(
            average_ranks(scores[:, order]), average_ranks(scores)[order]
        )

    def test_ranks_average_to_the_middle(self):
        scores = np.random.default_rng(3).integers(3, size=(11, 6))
        assert average_ranks(scores).mean() == pytest.approx(3.5, abs=1e-14)

    def test_one_encoder_ranks_first(self):
        assert average_ranks([[0.4], [0.2]]).tolist() == [1]

    @pytest.mark.parametrize(
        ("scores", "message"),
        [
            ([0.1, 0.2], r"got \(2,\)"),
            (np.empty((0, 3)), r"not be empty, got \(0, 3\)"),
            ([[0.1, math.nan]], "got nan in row 0, column 1"),
            ([[0.1, 0.2], [math.inf, 0.1]], "got inf in row 1, column 0"),
        ],
    )
    def test_tables_with_gaps_are_refused(self, scores, message):
        with pytest.raises(ValueError, match=message):
            average_ranks(scores)


class TestTablesOfThePaper:
    @pytest.mark.parametrize(("published", "datasets"), PUBLISHED)
    def test_published_ranks_lie_within_all_ways_of_breaking_ties(
        self, vtab, published, datasets
    ):
        scores = scores_of(vtab, published, datasets)
        lowest = rankdata(scores, axis=1, method="min").mean(axis=0)
        highest = rankdata(scores, axis=1, method="max").mean(axis=0)
        for ranks in (average_ranks(scores), np.array(list(published.values()))):
            # The paper prints two decimals.
            assert (ranks >= lowest - 0.0051).all()
            assert (ranks <= highest + 0.0051).all()

    def test_average_ranks_of_the_objectives(self, vtab):
        ranks = average_ranks(scores_of(vtab, OBJECTIVES))
        expected = [1.947, 2.447, 3.816, 4.211, 4.289, 4.289]
        np.testing.assert_allclose(ranks, expected, atol=5e-4)

    def test_breaking_ties_at_random_reaches_the_same_average(self, vtab):
        scores, rng = scores_of(vtab, SIZES), np.random.default_rng(0)
        broken = [
            average_ranks(scores + 1e-6 * rng.random(scores.shape)) for _ in range(400)
        ]
        np.testing.assert_allclose(
            np.mean(broken, axis=0), average_ranks(scores), atol=0.03
        )


class TestCriticalDifference:
    # Demsar, 2006, Table 5(a).
    @pytest.mark.parametrize(
        ("alpha", "constants"),
        [
            (0.05, [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]),
            (0.10, [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920]),
        ],
    )
    def test_constants_are_those_published(self, alpha, constants):
        for r, q in enumerate(constants, start=2):
            factor = math.sqrt(r * (r + 1) / (6 * 19))
            difference = nemenyi_critical_difference(r, 19, alpha)
            # Some published digits are one unit off in the last place.
            assert difference / factor == pytest.approx(q, abs=1.1e-3)

    @pytest.mark.parametrize(
        ("n_encoders", "n_datasets", "expected"),
        [
            (6, 19, (1.571, 1.730)),
            (12, 19, (3.544, 3.823)),
            (6, 7, (2.589, 2.850)),
            (6, 4, (3.424, 3.770)),
            (6, 8, (2.421, 2.666)),
        ],
    )
    def test_thresholds_for_the_tables_of_the_paper(
        self, n_encoders, n_datasets, expected
    ):
        at_ten = nemenyi_critical_difference(n_encoders, n_datasets)
        at_five = nemenyi_critical_difference(n_encoders, n_datasets, alpha=0.05)
        assert (at_ten, at_five) == pytest.approx(expected, abs=6e-4)

    def test_threshold_of_the_paper_uses_the_constant_of_fourteen_encoders(self):
        q = nemenyi_critical_difference(14, 19) / math.sqrt(14 * 15 / (6 * 19))
        assert q == pytest.approx(3.12, abs=5e-3)
        assert 3.12 * math.sqrt(6 * 7 / (6 * 19)) == pytest.approx(1.894, abs=5e-4)

    def test_two_encoders_are_a_normal_test(self):
        # The difference of two ranks has standard deviation 1 / sqrt(N) on average.
        assert nemenyi_critical_difference(2, 25, 0.05) == pytest.approx(
            1.959964 / 5, abs=1e-6
        )

    def test_difference_at_the_threshold_has_the_p_value_alpha(self, vtab):
        posthocs = pytest.importorskip("scikit_posthocs")
        scores = scores_of(vtab, OBJECTIVES)
        ranks = average_ranks(scores)
        p_values = posthocs.posthoc_nemenyi_friedman(scores).to_numpy()
        for i, j in zip(*np.triu_indices(6, k=1), strict=True):
            distance = abs(ranks[i] - ranks[j])
            if distance > 0:
                alpha = p_values[i, j]
                assert nemenyi_critical_difference(6, 19, alpha) == pytest.approx(
                    distance, rel=1e-4
                )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                (1, 19),
                "`n_encoders` must be an integer of at least 2, got n_encoders=1",
            ),
            ((6.0, 19), "`n_encoders`"),
            ((6, 0), "`n_datasets` must be an integer of at least 1, got n_datasets=0"),
            ((6, 19, 0), "got alpha=0"),
            ((6, 19, 1.0), "got alpha=1.0"),
            ((6, 19, math.nan), "got alpha=nan"),
        ],
    )
    def test_arguments_out_of_range_are_refused(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            nemenyi_critical_difference(*arguments)
