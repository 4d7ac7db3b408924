"""Language modelling: models that continue monolingual text."""
