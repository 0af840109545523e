//! Round trips between two processes by iceoryx2: `pingpong NAME`.
//!
//! It reads lines with the bytes of a question, a number of round trips, and the nanoseconds of round trips before them that
//! do not count. It prints a line with the nanoseconds of each one. The answers have 64 bytes. The other process is this
//! program with a second argument. Between the lines, both sleep.

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

const SMALL: usize = 64;
const LARGE: usize = 6 << 20;
const LAST: u8 = 255; // ends a line's round trips

type Sender = Publisher<ipc::Service, [u8], ()>;
type Receiver = Subscriber<ipc::Service, [u8], ()>;

fn send(p: &Sender, size: usize, word: u8) -> Result<(), Box<dyn Error>> {
    let sample = p.loan_slice_uninit(size)?;
    let mut sample = unsafe { sample.assume_init() }; // any bytes are bytes
    sample.payload_mut()[0] = word;
    sample.send()?;
    Ok(())
}

fn receive(s: &Receiver) -> Result<u8, Box<dyn Error>> {
    loop {
        if let Some(sample) = s.receive()? {
            return Ok(sample.payload()[0]);
        }
    }
}

/// Returns the numbers of a line.
fn command(line: &str) -> Result<[usize; 3], Box<dyn Error>> {
    let numbers: Result<Vec<usize>, _> = line.split_whitespace().map(str::parse).collect();
    numbers?.try_into().map_err(|_| "a line has three numbers".into())
}

fn main() -> Result<(), Box<dyn Error>> {
    set_log_level(LogLevel::Error);
    let arguments: Vec<String> = std::env::args().collect();
    let (name, parent) = (&arguments[1], arguments.len() == 2);
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let port = |kind: &str, size: usize| -> Result<(Sender, Receiver), Box<dyn Error>> {
        let service = node
            .service_builder(&format!("{name}/{kind}/{size}").as_str().try_into()?)
            .publish_subscribe::<[u8]>()
            .open_or_create()?;
        let publisher = service.publisher_builder().initial_max_slice_len(size).create()?;
        Ok((publisher, service.subscriber_builder().create()?))
    };
    let (own, others) = if parent { ("question", "answer") } else { ("answer", "question") };
    let senders = [port(own, SMALL)?.0, port(own, LARGE)?.0];
    let receivers = [port(others, SMALL)?.1, port(others, LARGE)?.1];
    let mut input = BufReader::new(std::io::stdin());
    let mut line = String::new();
    if !parent {
        println!("ready");
        while input.read_line(&mut line)? > 0 {
            let [size, ..] = command(&line)?;
            let mut word = 0;
            while word != LAST {
                word = receive(&receivers[usize::from(size == LARGE)])?;
                send(&senders[0], SMALL, word)?;
            }
            line.clear();
        }
        return Ok(());
    }
    let mut child = Command::new(std::env::current_exe()?)
        .args([name.as_str(), "child"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut ready = String::new();
    BufReader::new(child.stdout.take().ok_or("no pipe")?).read_line(&mut ready)?;
    println!("ready");
    while input.read_line(&mut line)? > 0 {
        let [size, count, awake] = command(&line)?;
        child.stdin.as_mut().ok_or("no pipe")?.write_all(line.as_bytes())?;
        let mut times = Vec::with_capacity(count);
        let (begin, mut number) = (Instant::now(), 0);
        while times.len() < count {
            let (start, word) = (Instant::now(), (number % LAST as usize) as u8);
            number += 1;
            send(&senders[usize::from(size == LARGE)], size, word)?;
            let answer = receive(&receivers[0])?;
            let taken = start.elapsed();
            if answer != word {
                return Err(format!("{word} was answered by {answer}").into());
            }
            if (start - begin).as_nanos() > awake as u128 {
                times.push(taken.as_nanos().to_string());
            }
        }
        send(&senders[usize::from(size == LARGE)], size, LAST)?;
        receive(&receivers[0])?;
        println!("{}", times.join(" "));
        line.clear();
    }
    drop(child.stdin.take()); // it ends
    child.wait()?;
    Ok(())
}
