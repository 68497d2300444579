"""One module per page; each has ``page()``, which ``main`` hands to ``st.navigation``."""
