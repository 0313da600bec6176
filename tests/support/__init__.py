"""What the end-to-end and fault tests share. The fixtures are in tests/conftest.py."""
