use super::*;

fn reading(sequence: u64, value: f64) -> Entry {
    Entry {
        value: Some(Value::F64(value)),
        sequence,
        ..Entry::MISSING
    }
}

#[test]
fn unsent_and_unanswered_items_have_their_fault_at_their_index() {
    let mut sut = ReadList::new(&[VariableRef::NOBODY; 6], ReadingBuffer::new());
    // The buffer knows no variable. The client refuses 1 and 4 and sends the others. The engine
    // refuses 2 and does not answer 5.
    assert_eq!(sut.ask(&Variables::default()), 0);
    sut.refused.retain(|(item, _)| [1, 4].contains(item));
    sut.sent = vec![(0, 10), (2, 12), (3, 13), (5, 15)];
    sut.set_epoch(7);
    for index in 0..3 {
        assert_eq!(sut.answered(index), Some(VariableRef::NOBODY));
        match index {
            1 => sut.push_fault(FaultCode::Gone.into()),
            _ => sut.push(reading(u64::from(index) + 1, f64::from(index))),
        }
    }
    assert_eq!(sut.answered(4), None);

    let buffer = sut.finish(&FaultCode::TimedOut.into());
    let codes: Vec<_> = buffer
        .iter()
        .map(|one| {
            one.map(|reading| reading.get::<f64>())
                .map_err(|fault| fault.code)
        })
        .collect();
    let expected = [
        Ok(Some(0.0)),
        Err(FaultCode::UnknownHandle),
        Err(FaultCode::Gone),
        Ok(Some(2.0)),
        Err(FaultCode::UnknownHandle),
        Err(FaultCode::TimedOut),
    ];
    assert_eq!(codes, expected);
    let indices: Vec<usize> = buffer.faults().map(|(index, _)| index).collect();
    assert_eq!(indices, [1, 2, 4, 5]);
    let values: Vec<_> = buffer.values::<f64>().collect();
    assert_eq!(values, [Some(0.0), None, None, Some(2.0), None, None]);
    assert_eq!((buffer.len(), buffer.get(6).is_none()), (6, true));

    let readings = buffer.to_readings();
    assert_eq!(readings, buffer.clone().into_readings());
    let position = readings[3].as_ref().map(|reading| reading.position);
    let (epoch, sequence) = (7, 3);
    assert_eq!(position, Ok(Position { epoch, sequence }));
}

#[test]
fn refilled_buffer_keeps_its_memory() {
    let variables = [VariableRef::NOBODY; 100];
    let mut sut = ReadList::new(&variables, ReadingBuffer::new());
    sut.sent = (0..100).map(|item| (item, item)).collect();
    for index in 0..100 {
        sut.answered(index);
        sut.push(reading(1, 1.0));
    }
    let buffer = sut.finish(&FaultCode::Internal.into());
    let (address, capacity) = (buffer.entries.as_ptr(), buffer.entries.capacity());
    let again = ReadList::new(&variables[..50], buffer).finish(&FaultCode::Internal.into());
    assert_eq!(
        (
            again.len(),
            again.entries.as_ptr(),
            again.entries.capacity()
        ),
        (50, address, capacity)
    );
    assert!(again.iter().all(|one| one.is_err()));
}
