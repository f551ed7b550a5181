"""The suite `migrate`: moving a store to another one while it is changed."""
