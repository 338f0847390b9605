"""
A method for torchgeo-bench
===========================

torchgeo-bench evaluates encoders with functions such as ``evaluate_logistic(x_train,
y_train, x_val, y_val, x_test, y_test, ...)``, which sweeps 40 values of C on the
validation split. The function below takes the same arguments, without those of the
sweep, and measures a codelength. You need not choose C or the scaling of features.
One pass also gives a *label-efficiency curve*, and several orders give the *spread over
seeds*.

To use this function in torchgeo-bench, add it to ``torchgeo_bench/main.py``, which
defines ``EvaluationResult``, and add ``"mdl"`` to the methods. In this example, digits
replace scenes, and sets of pixels replace encoders. For output of kaiko's eva, you need
no code: ``sklearn-mdl rank`` reads these folders and writes the long table as
``scores.csv``.
"""

import csv
import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sklearn_mdl import MDLReadoutSwitcher

N_DIGITS = 600
N_SEEDS = 3


# %%
# The method
# ----------
# Train and validation labels are coded together, since there are no settings to choose
# on a validation split. The test split is predicted afterwards, as with any other
# method. The interval comes from a bootstrap over rows, as in torchgeo-bench. It does
# not include the spread over orders. To measure that spread, use several seeds.


def evaluate_mdl(  # noqa: PLR0913, parameters of torchgeo-bench
    x_train,
    y_train,
    x_val,
    y_val,
    x_test,
    y_test,
    seed,
    n_bootstrap,
    merge_val=True,
    device="cpu",
):
    """Return nats per label with an interval, test accuracy, and a curve."""
    x, y = x_train, y_train
    if merge_val:
        x, y = np.concatenate([x_train, x_val]), np.concatenate([y_train, y_val])
    switcher = MDLReadoutSwitcher(
        "closed-form", shuffle=True, random_state=seed, device=device
    ).fit(x, y)
    nats = np.asarray(switcher.codelengths_)
    drawn = np.random.default_rng(seed).integers(0, len(nats), (n_bootstrap, len(nats)))
    lower, upper = np.percentile(nats[drawn].mean(axis=1), [2.5, 97.5])
    accuracy = switcher.score(x_test, y_test)
    curve = np.cumsum(nats) / np.arange(1, len(nats) + 1)
    return nats.mean(), lower, upper, accuracy, curve


# %%
# Results as rows of ``EvaluationResult``
# ---------------------------------------
# The field ``best_c`` is None, since a codelength has no C.

X, y = load_digits(return_X_y=True)
X, y = X[:N_DIGITS].astype(np.float32), y[:N_DIGITS]
parts = np.split(np.arange(N_DIGITS), [N_DIGITS // 2, N_DIGITS * 3 // 4])
encoders = {"all pixels": X, "4 pixels": X[:, 26:30]}

rows, curves = [], {}
for model, features in encoders.items():
    splits = [array[part] for part in parts for array in (features, y)]
    for seed in range(N_SEEDS):
        nats, lower, upper, accuracy, curve = evaluate_mdl(*splits, seed, 200)
        curves.setdefault(model, []).append(curve)
        rows.append(
            {
                "dataset": "digits",
                "method": "mdl",
                "metric_name": "nats_per_label",
                "metric_value": nats,
                "ci_lower": lower,
                "ci_upper": upper,
                "feature_dim": features.shape[1],
                "best_c": None,
                "seed": seed,
                "model": model,
            }
        )
        print(
            f"{model}: {nats:.3f} [{lower:.3f}, {upper:.3f}], accuracy {accuracy:.3f}"
        )

# %%
# Long CSV
# --------
# The table below is in the format of evaluma, the ranking tool of torchgeo-bench. Since
# evaluma assumes that higher is better, the scores are savings relative to the uniform
# code.

writer = csv.writer(sys.stdout)
writer.writerow(["model", "dataset", "metric", "score", "seed"])
for row in rows:
    saved = np.log(len(np.unique(y))) - row["metric_value"]
    names = row["model"], row["dataset"]
    writer.writerow([*names, "saved_nats_per_label", round(saved, 4), row["seed"]])

# %%
# Label efficiency, and its spread over seeds
# -------------------------------------------

fig, ax = plt.subplots()
for model, of_seeds in curves.items():
    mean = np.mean(of_seeds, axis=0)
    labels = np.arange(1, len(mean) + 1)
    (line,) = ax.plot(labels, mean, label=model)
    low, high = np.min(of_seeds, axis=0), np.max(of_seeds, axis=0)
    ax.fill_between(labels, low, high, color=line.get_color(), alpha=0.2)
ax.set(xlabel="labels", ylabel="nats per label so far", xscale="log")
ax.legend(title=f"range of {N_SEEDS} seeds")
plt.show()
