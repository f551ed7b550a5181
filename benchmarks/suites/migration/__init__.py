"""The suite `migrate`: moving the records of a store to another one while a client changes them."""
