"""What a certificate costs on this machine: stage by stage, beside the bare network and the released pipeline."""
