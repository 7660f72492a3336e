mod answers;
mod faults;
mod gateway;
mod neighbours;
mod receive;
mod send;
mod threads;
mod writers;
