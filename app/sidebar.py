"""The sidebar of every page: which GPU, which traffic. All of it stands in the URL."""

from __future__ import annotations

import streamlit as st

from app.files import MOST_MB, Choice
from app.guard import plain
from app.link import TEXT, TEXTS, choose, texts
from app.scene import Scene, library, scene
from app.widgets import multiselect, selectbox, slider, text
from workbench.errors import InputError


def sidebar() -> Scene:
    """Draw the sidebar and load what it chose. Raises InputError if that does not fit together."""
    with st.sidebar:
        profiles, traces = library("profiles").choices(), library("traces").choices()
        _say_what_is_gone({"profile": profiles, "trace": traces})
        profile = selectbox(
            st,
            "Profile (what a step costs)",
            list(profiles),
            next(iter(profiles)),
            key="profile",
            help="Measured step times of one GPU, model and drafter.",
        )
        chosen = multiselect(
            st,
            "Traces (what is accepted)",
            list(traces),
            [next(iter(traces))],
            key="trace",
            help="Recorded confidences and outcomes of a drafter; several are mixed.",
        )
        if not chosen:
            raise InputError(
                "no trace is chosen", place="Traces", mend="choose at least one in the sidebar"
            )
        weights = tuple(_weight(label) for label in chosen) if len(chosen) > 1 else (1.0,)
        if not sum(weights):
            raise InputError("all weights are 0", place="Traces", mend="raise one of them")
        graphs = text(
            st,
            "Captured graph sizes",
            key="graphs",
            placeholder="the profile's own",
            help="vllm, sglang, none, or sizes as in 1,2,4,8-256:8. Past the last one steps are "
            "eager and far dearer.",
        ).strip()
        _upload()
    return scene(profiles[profile], tuple(traces[label] for label in chosen), weights, graphs)


def _weight(label: str) -> float:
    return slider(st, f"Share of {label}", 0, 10, 1, key=f"share {label}")  # relative


def _say_what_is_gone(there: dict[str, dict[str, Choice]]) -> None:
    """A shared link may name an upload that this server does not hold (any more)."""
    for field, choices in there.items():
        for label in texts(field):
            if label and label not in choices:
                st.warning(
                    f"The link names {plain(label)}, which this server does not hold: upload it "
                    "again below.",
                    icon=":material/link_off:",
                )


def _upload() -> None:
    with st.expander("Upload your own", icon=":material/upload:"):
        for kind, types, said in (
            ("traces", ["jsonl", "gz", "zst"], "Trace (workbench.trace/1)"),
            ("profiles", ["json"], "Profile (workbench.profile/1)"),
        ):
            given = st.file_uploader(said, types, key=f"upload {kind}", max_upload_size=MOST_MB)
            if given is None:
                continue
            taken = f"taken {kind}"
            if st.session_state.get(taken) == given.file_id:
                continue
            try:
                choice = library(kind).add(given.name, given.getvalue())
            except InputError as error:
                st.error(plain(str(error)), icon=":material/error:")
                continue
            st.session_state[taken] = given.file_id
            if kind == "profiles":
                choose("profile", TEXT, choice.label)
            else:
                choose("trace", TEXTS, [choice.label])
            st.rerun()  # the widgets above are drawn by now
