#![no_main]

libfuzzer_sys::fuzz_target!(init: antiphon_fuzz::contain(), |data: &[u8]| antiphon_fuzz::parquet(data));
