"""The offline source of examples: sentence templates, word pools and the tools they are about."""
