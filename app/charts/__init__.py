"""Altair charts from runs, traces and profiles; no Streamlit in here."""
