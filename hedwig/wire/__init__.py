"""The wire protocol of Hedwig: messages and frames."""
