"""What every part of Hedwig shares: model, errors, versions, wire protocol."""
