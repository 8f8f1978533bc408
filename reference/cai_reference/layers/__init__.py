"""Layers: embedding, linear map, SwiGLU, and how their parameters are named and initialised."""

from cai_reference.layers.embedding import embedding
from cai_reference.layers.initialization import xavier_limit, xavier_uniform
from cai_reference.layers.linear import linear
from cai_reference.layers.swiglu import swiglu

__all__ = ["embedding", "linear", "swiglu", "xavier_limit", "xavier_uniform"]
