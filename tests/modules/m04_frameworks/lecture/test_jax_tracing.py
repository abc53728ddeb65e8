"""JAX is optional: with it, it refuses an `if` on a tracer."""

from hpml.modules.m04_frameworks.lecture import jax_tracing, optional

if not optional.missing("jax"):

    def test_an_if_on_a_tracer_is_refused():
        assert jax_tracing.refusal(lambda x: x if x > 0 else -x, 1.0) == "TracerBoolConversionError"

    def test_a_new_shape_is_traced_anew():
        import jax.numpy as jnp

        values = [jnp.ones(n) for n in (4, 4, 5)]
        assert jax_tracing.traces_after_each(jnp.sum, values) == [1, 1, 2]

    def test_a_function_without_an_if_is_traced():
        assert jax_tracing.refusal(lambda x: x * x, 1.0) == ""
