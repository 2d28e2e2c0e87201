//! A message over a reliable connection in Rust, without a crate: `message.c` has the functions that only C sees.
//!
//!     rustc -O hello.rs -o hello-rs -L . -l message -C link-arg=-Wl,-rpath,$PWD
//!
//! Without an argument it listens on its node's address; with one it connects there and sends.
use std::env;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::io::Error;
use std::process::exit;

const ROOM: usize = 64;

extern "C" {
    fn message_connect(address: *const c_char, buffer: *mut c_void, octets: usize) -> *mut c_void;
    fn message_accept(address: *const c_char, buffer: *mut c_void, octets: usize) -> *mut c_void;
    fn message_send(end: *mut c_void, buffer: *mut c_void, octets: usize) -> c_int;
    fn message_receive(end: *mut c_void) -> c_int;
    fn message_close(end: *mut c_void);
}

/// One end of the connection, and the registered memory that it sends from or receives into.
struct Connection {
    end: *mut c_void,
    buffer: Box<[u8; ROOM]>,
}

impl Connection {
    fn new(address: &str, listens: bool) -> Result<Self, Error> {
        let (mut buffer, address) = (Box::new([0; ROOM]), CString::new(address)?);
        let memory = buffer.as_mut_ptr().cast();
        let end = unsafe {
            if listens { message_accept(address.as_ptr(), memory, ROOM) } else { message_connect(address.as_ptr(), memory, ROOM) }
        };
        if end.is_null() { Err(Error::last_os_error()) } else { Ok(Self { end, buffer }) }
    }

    fn send(&mut self, text: &str) -> Result<(), Error> {
        let length = text.len().min(ROOM - 1);
        self.buffer[..length].copy_from_slice(&text.as_bytes()[..length]);
        match unsafe { message_send(self.end, self.buffer.as_mut_ptr().cast(), ROOM) } {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        }
    }

    fn receive(&mut self) -> Result<String, Error> {
        match unsafe { message_receive(self.end) } {
            0 => Ok(CStr::from_bytes_until_nul(&self.buffer[..]).unwrap().to_string_lossy().into_owned()),
            _ => Err(Error::last_os_error()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        unsafe { message_close(self.end) }
    }
}

fn run() -> Result<(), Error> {
    if let Some(address) = env::args().nth(1) {
        let place = env::var("SOFTIB_PLACE").unwrap_or("another host".into());
        return Connection::new(&address, false)?.send(&format!("hello from Rust on {place}"));
    }
    println!("{}", Connection::new(&env::var("SOFTIB_ADDRESS").unwrap_or_default(), true)?.receive()?);
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("hello-rs: {error}");
        exit(1);
    }
}
