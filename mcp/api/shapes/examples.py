"""Ids and names of the gateway's examples; they go on telling the story of `nhi.api.shapes.examples`."""

SERVER = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b01"
CREATE_TODO = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b02"
CALL = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b03"
BUDGET = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b04"
REPORT = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b05"
RETRY = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b06"

HASH = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
ARGS_HASH = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
