"""Profiles: what a step costs, as measured and as charged."""

from __future__ import annotations

import msgspec
import streamlit as st

from app import widgets
from app.charts import profile as charts
from app.scene import Scene
from workbench.profiles import Profile


def page(scene: Scene) -> None:
    """Draw the page."""
    profile = scene.profile
    st.title("Profiles")
    st.caption(f"{profile.name}: what one engine step costs. Upload your own in the sidebar.")
    _facts(profile)
    st.subheader("The staircase")
    last = max(profile.verify.batch_tokens)
    if scene.cost.last_captured:
        last = max(last, scene.cost.last_captured)
    left, right = st.columns([2, 3])
    seconds = widgets.segmented(left, "Shown as", ["steps/s", "ms"], "steps/s", key="stairs as")
    sizes = [64 << power for power in range(12) if 64 << power <= 4 * last] or [64]
    whole = max(n for n in sizes if n <= max(last, 64))
    most = widgets.select_slider(right, "Up to batch tokens", sizes, whole, key="stairs to")
    st.altair_chart(charts.stairs(scene.cost, most, seconds == "ms"), key="stairs")
    st.caption(
        "The forward pass alone, as the simulator charges it: padded to the next captured graph, "
        "eager past the last one. Grey points were measured."
    )
    _tables(profile)
    _fit(scene)
    with st.expander("The file", icon=":material/data_object:"):
        st.json(_short(profile.document), expanded=False)


def _facts(profile: Profile) -> None:
    hardware, target, drafter = profile.hardware, profile.target, profile.drafter
    facts = (
        ("GPU", f"{hardware.gpus} × {hardware.gpu or 'not named'}"),
        ("Target", target.name or "not named"),
        ("Drafter", f"{drafter.kind}, γ = {drafter.block_size}" if drafter else "none"),
        ("Engine", " ".join(filter(None, [profile.engine.name, profile.engine.version])) or "–"),
        (
            "KV cache",
            f"{profile.kv_cache.capacity_tokens:,} tokens" if profile.kv_cache else "unlimited",
        ),
    )
    with st.container(horizontal=True, gap="medium"):
        for name, value in facts:
            st.markdown(f":small[{name}]  \n**{value}**", width="content")


def _tables(profile: Profile) -> None:
    tabs = {}
    if part := profile.attention:
        for queries, seconds in part.slices():
            name = "Attention" if queries is None else f"Attention, {queries} query tokens"
            tabs[name] = charts.table(
                part.requests, part.context_tokens, seconds, "requests", "context (tokens)"
            )
    if part := profile.draft:
        for context, seconds in part.slices():
            name = "Draft pass" if context is None else f"Draft pass at context {context}"
            tabs[name] = charts.table(
                part.requests, part.tokens, seconds, "requests", "drafted tokens"
            )
    if part := profile.prefill:
        tabs["Prefill attention"] = charts.table(
            part.chunk_tokens,
            part.context_tokens,
            part.seconds,
            "chunk (tokens)",
            "context before the chunk (tokens)",
        )
    if profile.power:
        tabs["Power"] = charts.power(profile)
    if not tabs:
        return
    st.subheader("The other parts of a step")
    for tab, chart in zip(st.tabs(list(tabs)), tabs.values(), strict=True):
        tab.altair_chart(chart)
    if profile.host:
        host = profile.host
        st.caption(
            f"Host time per step: {host.sync_seconds * 1e6:,.0f} µs if the scheduler waits for "
            f"this step's confidences, {host.async_seconds * 1e6:,.0f} µs if not."
        )


def _fit(scene: Scene) -> None:
    measured = scene.profile.document.get("measured")
    cells = measured.get("whole_steps") if isinstance(measured, dict) else None
    if not isinstance(cells, list) or not cells:
        return
    try:
        cells = msgspec.convert(cells, list[dict[str, float]])
        chart, frame = charts.fit(cells, scene.cost)
    except (msgspec.ValidationError, KeyError, ZeroDivisionError):
        st.caption("measured.whole_steps is not as the probe writes it, so it is not shown.")
        return
    st.subheader("Measured against the tables")
    left, right = st.columns([2, 3])
    left.altair_chart(chart)
    right.dataframe(frame.round(3), hide_index=True)
    st.caption("Decode steps that were measured whole, against verify + attention of the tables.")


def _short(node):
    """The document with long lists cut, so that a browser can show it."""
    if isinstance(node, dict):
        return {key: _short(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_short(value) for value in node[:64]]
    return node
