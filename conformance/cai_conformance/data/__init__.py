"""The embedded bilingual corpus, English and Greek, and its fixed split; data only, read as package resources."""
