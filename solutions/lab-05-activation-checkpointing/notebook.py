# %% [markdown]
# # Lab 05
