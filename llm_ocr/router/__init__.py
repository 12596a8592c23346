"""The inference tier of the service: one address with the chat API for many models.

A request names a model or an alias, which stands for a task or divides documents among models. The
router passes its body to the replica of that model with the least load.
"""
