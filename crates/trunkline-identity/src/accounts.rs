pub const FILE_BYTES_MAX: usize = 4 << 20;
