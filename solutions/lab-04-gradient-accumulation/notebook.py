# %% [markdown]
# # Lab 04
