from gpu_runner.contracts.verify import CandidateSource
def screen(candidate): return None
