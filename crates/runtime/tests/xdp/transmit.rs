//! What has to be sent is sent, whatever else happens.
