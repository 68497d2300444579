"""Figures for people: tables and sentences made of result dictionaries."""
