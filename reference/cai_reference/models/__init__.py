"""Models: layers wired together, with their parameters in a fixed registry order."""

from cai_reference.models.neural_ngram import NeuralNgram, NeuralNgramConfiguration, Stages

__all__ = ["NeuralNgram", "NeuralNgramConfiguration", "Stages"]
