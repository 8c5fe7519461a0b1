"""What a model of this folder is expected to be told, beside the model."""


def expect(*findings):
    """Names the findings of a model: ``id``, or ``id@function`` where it is about another than ``main``."""

    def named(recipe):
        recipe.expect = sorted(findings)
        return recipe

    return named
