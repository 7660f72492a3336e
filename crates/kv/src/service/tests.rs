use super::*;

fn service(text: &str) -> Service {
    text.parse().unwrap()
}

fn mean_of_draws_us(service: &Service) -> f64 {
    let stream = ServiceStream::new(service, 7, "worker/0");
    let draws = 200_000;
    (0..draws).map(|_| stream.draw_ns()).sum::<f64>() / f64::from(draws) / 1e3
}

#[test]
fn times_and_distributions_are_read() {
    for (text, mean_us) in [("6us", 6.0), ("500ns", 0.5), ("1.5ms", 1500.0), ("1s", 1e6), ("exp:6us", 6.0)] {
        assert!((service(text).mean_us() - mean_us).abs() < 1e-9, "{text}");
        assert_eq!(service(text).to_string(), text);
    }
}

#[test]
fn what_is_none_is_refused_with_what_is() {
    for text in ["", "6", "us", "6 us", "-1us", "infus", "1e3us", "exp:", "exp:6", "gauss:6us", "6min"] {
        let error = text.parse::<Service>().unwrap_err();
        assert!(
            matches!(error, ServiceError::Unknown { .. }) && error.to_string().contains("exp:6us"),
            "{text}: {error}"
        );
    }
    for text in ["0us", "1.1s", "exp:2s"] {
        assert!(matches!(text.parse::<Service>(), Err(ServiceError::Range { .. })), "{text}");
    }
    assert!(matches!("hist:/nowhere/at/all".parse::<Service>(), Err(ServiceError::File { .. })));
}

#[test]
fn histograms_are_lines_of_a_time_and_its_weight() {
    let times = Times::Histogram(buckets("h", "# two kinds\n1us 3\n\n9us 1 # rare\n5us 0\n").unwrap());
    let service = Service { name: "hist:h".to_owned(), times };
    assert!((service.mean_us() - 3.0).abs() < 1e-9, "{}", service.mean_us());
    assert_eq!([0.1, 0.74, 0.76, 0.999].map(|unit| service.quantile_ns(unit)), [1e3, 1e3, 9e3, 9e3]);
    assert!((mean_of_draws_us(&service) - 3.0).abs() < 0.05);
    for (content, line) in [("1us 1\n6us", 2), ("1 1", 1), ("1us -1", 1), ("1us nan", 1), ("1us 1 1", 1)] {
        match buckets("h", content).unwrap_err() {
            ServiceError::Bucket { line: at, .. } => assert_eq!(at, line, "{content}"),
            other => panic!("{content}: {other}"),
        }
    }
    assert!(matches!(buckets("h", "# none\n1us 0\n"), Err(ServiceError::Buckets { buckets: 0, .. })));
}

/// What `compare --out` writes can be what a request takes elsewhere.
#[test]
fn a_histogram_may_be_a_log_of_histograms() {
    let cell = "HISTFAAAACB42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEAWX8Eng==";
    let error = histogram("h", &format!("0.0,1.0,0.1,{cell}x\n")).unwrap_err().to_string();
    assert!(error.starts_with("the log of histograms h: "), "{error}");
}

#[test]
fn an_exponential_has_its_mean_and_its_tail() {
    let service = service("exp:6us");
    assert!((mean_of_draws_us(&service) - 6.0).abs() < 0.1, "{}", mean_of_draws_us(&service));
    assert!((service.quantile_ns(0.99) / 1e3 - 6.0 * 100_f64.ln()).abs() < 1e-6);
    assert!(service.quantile_ns(1.0 - 1e-16) <= 6e3 * EXPONENTIAL_MAX);
}

#[test]
fn a_seed_gives_the_same_times_again_and_each_worker_its_own() {
    let service = service("exp:6us");
    let drawn = |stream: &ServiceStream| (0..9).map(|_| stream.draw_ns().to_bits()).collect::<Vec<_>>();
    let stream = ServiceStream::new(&service, 1, "worker/0");
    let first = drawn(&stream);
    assert_ne!(drawn(&stream), first);
    stream.restart();
    assert_eq!(drawn(&stream), first);
    assert_eq!(drawn(&ServiceStream::new(&service, 1, "worker/0")), first);
    assert_ne!(drawn(&ServiceStream::new(&service, 1, "worker/1")), first);
    assert_ne!(drawn(&ServiceStream::new(&service, 2, "worker/0")), first);
}
