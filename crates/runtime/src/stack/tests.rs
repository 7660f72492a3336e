mod answers;
mod cost;
mod receive;
mod send;
mod threads;
