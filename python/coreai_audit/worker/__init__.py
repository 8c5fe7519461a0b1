"""What runs in a worker process: one module per stage, driven from Rust.

Every public function takes and returns plain values or JSON text; torch, coreai_torch and coreai are
imported inside the functions that need them, so that a missing package is an answer and not a crash.
"""
