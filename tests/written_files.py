"""All code that creates, changes or removes files.

By module: what it calls, the kinds of files in which data are written, and the rule.
Kinds with a dot are formats of others.
"""

WRITERS = {
    "_core/base/estimator.py": (
        ["exclusive"],
        [],
        "only one call at a time writes to the folders of a stream",
    ),
    "_core/base/saving.py": (
        ["write_archive"],
        ["estimator"],
        "the file that save names, replaced whole if this package wrote it",
    ),
    "_core/images/rows.py": (
        ["open_memmap", "replaced"],
        [".npy"],
        "the file that image_rows names, which must be new",
    ),
    "_core/io/append_array.py": (
        ["open", "replaced", "truncate"],
        [".npy"],
        "in the folder of a stream (mixtures.npy, labels.npy and known.npy "
        "first, then losses.npy), or .part.npy of the feature cache: a new file "
        "is put in place when it is written; one of our own grows in place, and "
        "is cut to the rows before if writing fails",
    ),
    "_core/io/safetensors_io.py": (
        ["open", "replaced"],
        [],
        "write_archive: replaced whole, with checksums",
    ),
    "_core/io/stream_folder.py": (
        ["mkdir", "replaced", "write_text"],
        ["losses"],
        "losses.json of a stream, with its id: written before any other file, "
        "and refused if files of other origin are there",
    ),
    "_core/io/whole_files.py": (
        [
            "FileLock",
            "mkdir",
            "os.open",
            "os.replace",
            "replaced",
            "rmtree",
            "touch",
            "unlink",
            "write_text",
        ],
        ["list"],
        ".NAME.HEX.mdl-part until a file, or all files of a folder, are whole, removed "
        "where a killed process left it; .lock in the folder of a stream; and "
        ".sklearn_mdl in a folder",
    ),
    "_core/side_by_side.py": (
        ["mkdir", "os.open", "rmtree"],
        [],
        "a folder with a random name in the system's place for temporary files, "
        "removed at the end",
    ),
    "_core/stream/checkpoint.py": (
        ["write_archive"],
        ["checkpoint"],
        "progress.safetensors in the folder of a pass, named by a digest of "
        "settings and data",
    ),
    "_core/stream/part.py": (
        ["write_archive"],
        ["part"],
        "part-N.safetensors of a pass in processes, replaced whole",
    ),
    "_core/stream/samples.py": (
        ["GrowingArray"],
        [".npy"],
        "rows of a stream, in its folder",
    ),
    "_core/stream/trace.py": (
        ["GrowingArray"],
        [".npy"],
        "losses and mixtures of a stream, in its folder",
    ),
    "cli/_decode.py": (
        ["np.save", "write_text"],
        [".npy", ".txt"],
        "the file that --out names, which must be new",
    ),
    "cli/_encode.py": (
        ["write_bytes"],
        ["message"],
        "the file that --out names, replaced if it is a message",
    ),
    "cli/_remix.py": (
        ["np.save", "savefig"],
        [".npy", ".csv", ".png"],
        "files named after the prior, in the folder that --out names, replaced "
        "if they are listed there",
    ),
    "datasets/_readers/shards.py": (
        ["GrowingArray"],
        [".npy"],
        "the folder that the caller names; features.npy in it is replaced when "
        "all shards were read, if it is listed there",
    ),
    "encoders/_cache.py": (
        ["FileLock", "GrowingArray", "unlink", "write_archive"],
        ["features", ".npy"],
        "files named by a digest of all that features depend on; images under a lock",
    ),
    "encoders/_views.py": (
        ["GrowingArray"],
        [".npy"],
        "the file that views_of names, which must be new",
    ),
    "model_selection/_export.py": (
        ["write_archive"],
        ["probe"],
        "the file that save of an exported probe names, replaced whole if this "
        "package wrote it",
    ),
    "model_selection/_race_folder.py": (
        ["exclusive", "replaced", "unlink", "write_archive", "write_text"],
        ["race", "update"],
        "race.json of a race, with what was fixed before its first label, and "
        "labels-N.safetensors of each update, written once and never changed, "
        "and deleted only if the update breaks off as it is written; "
        "another writer is refused, and so are files of these names that are "
        "not of this race",
    ),
    "model_selection/_store.py": (
        ["mkdir", "open", "replaced", "write_archive"],
        ["cell", "trace"],
        "cells, named by a digest of settings and data, replaced whole",
    ),
    "report/_comparison.py": (
        ["replaced", "write_text"],
        [".html"],
        "the file that to_html names, replaced whole if its head says that this "
        "package wrote it",
    ),
    "report/_report.py": (
        ["write_text"],
        [".html"],
        "files of fixed names in the folder of the results, all put in place at "
        "the end, replaced if they are listed there",
    ),
    "report/_tables.py": (
        ["open", "write_text"],
        ["results", ".csv", ".tex"],
        "as for _report.py",
    ),
    "switcher/_loss_files.py": (
        ["open", "replaced", "unlink", "write_text"],
        ["losses", ".npy"],
        "the file that save_losses names, and its .json: replaced if this "
        "package wrote the latter, and not for a stream",
    ),
    "switcher/_split.py": (
        [
            "GrowingArray",
            "TemporaryDirectory",
            "exclusive",
            "mkdir",
            "replaced",
            "rmtree",
            "write_archive",
            "write_text",
        ],
        ["checkpoint", "part", "plan", ".npy"],
        "rows, labels, plan and progress of a pass in processes, in a folder "
        "next to its checkpoint, or in a temporary one; removed when the pass "
        "has ended",
    ),
    "switcher/_split_parts.py": (
        ["exclusive"],
        [],
        "a part has one writer",
    ),
}
