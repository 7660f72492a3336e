mod answers;
mod receive;
mod send;
mod threads;
