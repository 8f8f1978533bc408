"""Exporting goldens as folders for engines: weights in a layout that they load, vectors and trace beside them."""

from __future__ import annotations

from cai_conformance.exporting.contents import Layout, can_export, contents_of
from cai_conformance.exporting.folders import write_folders

__all__ = ["Layout", "can_export", "contents_of", "write_folders"]
