"""`.nn` files, and the models in them."""

from __future__ import annotations

import os

from cai_conformance.interchange.errors import UnfitSource, UnreadableNet
from cai_conformance.interchange.files import FilePath, read_file, write_file
from cai_reference.errors import CaiReferenceError
from cai_reference.nets.conversion import Model, decoder_to_net, net_to_decoder
from cai_reference.nets.format import NetFile, format_net, parse_net


def read_net(path: FilePath) -> NetFile:
    """Read a `.nn` file.

    Raises:
        InputUnreadable: the operating system refuses.
        UnreadableNet: the file is damaged, or holds what is not supported.
    """
    data = read_file(path)
    try:
        return parse_net(data)
    except CaiReferenceError as error:
        raise UnreadableNet(os.fspath(path), str(error)) from error


def write_net(path: FilePath, net: NetFile) -> None:
    """Write a `.nn` file, whole or not at all; values are rounded to single precision.

    Raises:
        UnfitSource: the net has layers or weights that the format has no words for.
        OutputNotWritten: the operating system refuses.
    """
    try:
        data = format_net(net)
    except CaiReferenceError as error:
        raise UnfitSource("the net", str(error)) from error
    write_file(path, data)


def import_net(net: NetFile) -> Model:
    """Return the decoder or draft that a net is.

    Raises:
        UnfitSource: it is none of the family; the inner error says where it differs.
    """
    try:
        return net_to_decoder(net)
    except CaiReferenceError as error:
        raise UnfitSource("the net", str(error)) from error


def export_model(model: Model, source: str) -> NetFile:
    """Return the net of a model, in single precision; `source` names it in errors.

    Raises:
        UnfitSource: a weight is too large for single precision.
    """
    try:
        return decoder_to_net(model)
    except CaiReferenceError as error:
        raise UnfitSource(source, str(error)) from error
