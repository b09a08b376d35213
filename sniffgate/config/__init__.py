"""The configuration: what it is (`schema`), how a file becomes one (`load`), and one to start from (`example`)."""
