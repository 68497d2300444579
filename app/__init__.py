"""The Streamlit app: ``streamlit run app/main.py``. Pages in ``views``, drawings in ``charts``."""
